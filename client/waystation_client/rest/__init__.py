"""The REST API as the OpenAPI document has it: typed bodies, and a function for each operation."""
