"""`python -m zoolearn` is the `zoo` command."""

from zoolearn.cli import main

if __name__ == "__main__":
    main()
