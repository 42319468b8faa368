"""People's answers, tokens and rules; what goes out; the wait gate's rows; presence."""

from hitl.models import outbound as outbound  # Django looks for tables here
from hitl.models.assistants import LangGraphAssistant, LangGraphAssistantVersion
from hitl.models.batches import Batch, BatchAction
from hitl.models.channels import ChatAccount, ChatCode
from hitl.models.comments import Comment, Mention
from hitl.models.decisions import NOBODYS, STEP_AROUND, UNDO, Decision, Via, name_of
from hitl.models.delegations import Delegation, Snooze
from hitl.models.idempotency import IdempotencyKey
from hitl.models.langgraph import LangGraphItem, LangGraphRun, LangGraphTag, LangGraphThread
from hitl.models.ledgers import Anchor, Erasure, Import, Ledger, ledger_name
from hitl.models.people.directory import ClaimedGroup, Connection, MembershipChange
from hitl.models.people.preferences import Preference
from hitl.models.people.presence import Presence, SeenFile
from hitl.models.people.saved_views import SavedView
from hitl.models.people.service_accounts import ServiceAccount, is_service
from hitl.models.people.tokens import ApiToken
from hitl.models.starts import InboundStart, StartDelivery
from hitl.models.votes import Vote
from hitl.models.wait_gate import EarlyAnswer, InboundSource, OuterRun, Wait

__all__ = [
    "NOBODYS",
    "STEP_AROUND",
    "UNDO",
    "Anchor",
    "ApiToken",
    "Batch",
    "BatchAction",
    "ChatAccount",
    "ChatCode",
    "ClaimedGroup",
    "Comment",
    "Connection",
    "Decision",
    "Delegation",
    "EarlyAnswer",
    "Erasure",
    "IdempotencyKey",
    "Import",
    "InboundSource",
    "InboundStart",
    "LangGraphAssistant",
    "LangGraphAssistantVersion",
    "LangGraphItem",
    "LangGraphRun",
    "LangGraphTag",
    "LangGraphThread",
    "Ledger",
    "MembershipChange",
    "Mention",
    "OuterRun",
    "Preference",
    "Presence",
    "SavedView",
    "SeenFile",
    "ServiceAccount",
    "Snooze",
    "StartDelivery",
    "Via",
    "Vote",
    "Wait",
    "is_service",
    "ledger_name",
    "name_of",
]
