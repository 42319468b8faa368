"""The house: checks that documents are true and that every module stands where its name says."""
