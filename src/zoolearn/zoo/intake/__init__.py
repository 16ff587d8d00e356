"""People's data on its way into a zoo: what it would add, said first; copies and leaks found; rows split and stored."""
