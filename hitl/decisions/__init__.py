"""One `decide` behind every door: who may answer, what is valid, and what becomes of it."""
