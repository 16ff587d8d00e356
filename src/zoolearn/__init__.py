"""zoolearn."""
