"""What a zoo is asked: inputs whose task is given or not, and "none of these"."""
