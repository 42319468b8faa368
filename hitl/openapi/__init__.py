"""The OpenAPI document of the REST API, derived from the code that serves it."""
