"""What every room shares: errors, files, checked fields, and protocols of two sides."""
