"""What methods are made of: pieces that several share, each an idea with a name of its own and tests of its own."""
