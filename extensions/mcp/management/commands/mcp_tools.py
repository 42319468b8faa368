from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from extensions.mcp import client
from extensions.mcp.client import McpServer
from runs.agents.tools import ToolFailed
from runs.security import credentials
from runs.workflows import schemas
from runs.workflows.base import StepFailed
from runs.workflows.tool_calls import RISKS


class Command(PlainCommand):
    help = (
        "Accept tools of an MCP server for agents, as the server describes them now; say what has "
        "changed since. Workers read the file of WAYSTATION_MCP_TOOLS when they start."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        accept = commands.add_parser("accept", help="keep a server's tools as they are now")
        accept.add_argument(
            "name", help="a short name of your own: agents see tracker_create_issue"
        )
        accept.add_argument("url", help="its address, https://mcp.example.org/mcp")
        accept.add_argument("--credential", default="", help="sent as a bearer token")
        accept.add_argument("--tool", action="append", dest="tools", help="this one only; again")
        accept.add_argument(
            "--risk",
            action="append",
            default=[],
            metavar="TOOL=RISK",
            help="low, normal or high, which each tool is where nothing is said",
        )
        commands.add_parser("check", help="say what has changed; exit code 1 where anything has")
        commands.add_parser("list", help="what was accepted")
        remove = commands.add_parser("remove", help="forget a server")
        remove.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.WAYSTATION_MCP_TOOLS:
            raise CommandError("Set WAYSTATION_MCP_TOOLS to the file that is to hold them.")
        path = Path(settings.WAYSTATION_MCP_TOOLS)
        try:
            servers = client.read(path)
        except client.ServersRefused as error:
            raise CommandError(str(error)) from error
        match options["command"]:
            case "accept":
                server = self._accepted(options)
                client.write(path, {**servers, server.name: server})
                self._list({server.name: server})
                self.stdout.write("Restart web servers and workers to use them.")
            case "check":
                if self._changed(servers):
                    raise SystemExit(1)
            case "remove":
                if options["name"] not in servers:
                    raise CommandError(f"There is no server {options['name']!r}.")
                del servers[options["name"]]
                client.write(path, servers)
            case _:
                self._list(servers)

    def _accepted(self, options: dict[str, Any]) -> McpServer:
        server = McpServer(
            name=options["name"], url=options["url"], credential=options["credential"]
        )
        risks = dict(word.partition("=")[::2] for word in options["risk"])
        found = self._offered(server)
        unknown = ({*(options["tools"] or ()), *risks}) - set(found)
        if unknown:
            raise CommandError(
                f"{server.name} has no tool {', '.join(sorted(unknown))}. It has: "
                f"{', '.join(sorted(found))}."
            )
        kept = {}
        for name, tool in found.items():
            if options["tools"] and name not in options["tools"]:
                continue
            risk = risks.get(name, "high")
            if risk not in RISKS:
                raise CommandError(f"{risk!r} is no risk: low, normal or high.")
            try:
                schemas.check_inputs(dict(tool.schema))
            except schemas.SchemaRefused as error:
                self.stderr.write(f"{name} is left out: its arguments cannot be checked ({error}).")
                continue
            if len(server.known_as(name)) > 64 or not server.known_as(name)[:1].isalpha():
                self.stderr.write(f"{name} is left out: {server.known_as(name)} is no name.")
                continue
            kept[name] = client.McpTool(**{**vars(tool), "risk": risk})
        if not kept:
            raise CommandError(f"{server.name} has no tool that can be used.")
        return McpServer(**{**vars(server), "tools": kept})

    def _offered(self, server: McpServer) -> dict[str, client.McpTool]:
        try:
            secret = (
                credentials.resolve(server.credential, team_id=None, to=server.url)
                if server.credential
                else ""
            )
            return client.offered(server, secret)
        except (ToolFailed, StepFailed) as error:
            raise CommandError(str(error)) from error

    def _changed(self, servers: dict[str, McpServer]) -> bool:
        changed = False
        for server in servers.values():
            now = self._offered(server)
            for name, tool in server.tools.items():
                said = "as accepted"
                if name not in now:
                    said = "gone"
                elif now[name].digest != tool.digest:
                    said = "changed: a person is asked about each call; accept it anew"
                changed = changed or said != "as accepted"
                self.stdout.write(f"{server.known_as(name)}  {said}")
        return changed

    def _list(self, servers: dict[str, McpServer]) -> None:
        for server in servers.values():
            self.stdout.write(f"{server.name}  {server.url}")
            for name, tool in server.tools.items():
                words = " ".join(tool.description.split())[:100]
                self.stdout.write(f"  {server.known_as(name)}  {tool.risk}  {words}")
