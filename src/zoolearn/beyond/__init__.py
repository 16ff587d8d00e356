"""What a zoo can do past the paper, one idea a module; all are settings of `ModelZoo`, off by default."""
