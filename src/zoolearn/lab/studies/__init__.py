"""The paper's analyses, one file each: many small runs that are made in parallel, kept, and read together."""
