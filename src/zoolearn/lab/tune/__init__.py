"""The search for good settings: trials judged by training data that was set aside, weak ones stopped early, all of it resumable."""
