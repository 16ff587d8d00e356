"""The search for good settings: trials on validation data, weak ones stopped early, all of it resumable."""
