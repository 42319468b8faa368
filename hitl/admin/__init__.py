"""Decisions, forensics that act, endpoints and erasure in Django's admin."""

# Django looks for what is registered here
from hitl.admin import channels as channels
from hitl.admin import decisions as decisions
from hitl.admin import directory as directory
from hitl.admin import erasure as erasure
from hitl.admin import forensics as forensics
from hitl.admin import imports as imports
from hitl.admin import orders as orders
from hitl.admin import outbound as outbound
from hitl.admin import pauses as pauses
from hitl.admin import people as people
from hitl.admin import policy as policy
from hitl.admin import service_accounts as service_accounts
from hitl.admin import starts as starts
from hitl.admin import tokens as tokens
from hitl.admin import wait_gate as wait_gate
