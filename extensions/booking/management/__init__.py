"""What `manage.py` offers of this app."""
