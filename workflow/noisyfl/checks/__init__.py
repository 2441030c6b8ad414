"""What has to hold for every method, for ours and for those of plugins."""
