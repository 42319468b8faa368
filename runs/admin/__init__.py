"""Templates and the machine's rows in Django's admin."""

# Django looks for what is registered here
from runs.admin import credentials as credentials
from runs.admin import limits as limits
from runs.admin import repositories as repositories
from runs.admin import rights as rights
from runs.admin import schedules as schedules
from runs.admin import templates as templates
