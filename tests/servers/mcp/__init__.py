"""The kit of the Model Context Protocol, and the server that it judges."""
