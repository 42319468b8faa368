"""What a Django project needs to serve the apps, a line each: docs/how-to/embedding.md."""
