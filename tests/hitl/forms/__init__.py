"""Forms made from JSON Schema and from templates."""
