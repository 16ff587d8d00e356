"""Speed, side by side with a bare loop and with peers: `python -m benchmarks NAME`, one file a benchmark."""
