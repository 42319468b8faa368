"""The product on hosts of its own: what `make chaos` breaks, with both databases and Redis as hosts
too, and without proxies where namespaces are permitted.
"""

from __future__ import annotations

from typing import Any

from bench.chaos.hosts.network import Cabled
from bench.chaos.hosts.servers import Servers, both
from bench.chaos.namespaces import Namespace
from bench.chaos.sabotage import HOST
from bench.chaos.wire import Link, Weather
from bench.chaos.world import Host, World


class Hosts(World):
    def __init__(self, *arguments: Any, places: Servers, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.places, self.namespaces = places, places.namespaces
        self.servers = []  # these end with their hosts

    def start(self, name: str) -> Host:
        self.stack.own.setdefault(name, {})[HOST] = name
        return super().start(name)

    def _network(self) -> Namespace | None:
        if not self.namespaces:
            return None
        network = Cabled(len(self.networks))
        self.networks.append(network)
        network.make()
        return network

    def _links(self, name: str, network: Namespace | None = None) -> tuple[Link, Link]:
        if network is not None:
            return super()._links(name, network)  # nobody comes over them: see `reach`
        database = both(self.wire, name, self.places, "127.0.0.1")
        return database, self.wire.link(f"{name} broker", self.redis.port)

    def reach(self, database: Link, broker: Link) -> dict[str, str]:
        if self.namespaces:
            return {"DATABASE_URL": self.places.url, "REDIS_URL": self.redis.url}
        return super().reach(database, broker)

    def set_weather(self, weather: Weather | None) -> None:
        """Of the ways to the primary, to Redis and of the first worker; None is fair."""
        if self.namespaces:
            worker = self.hosts[self.names[0]].network
            networks = [self.places.networks[self.places.primary], self.places.networks[2], worker]
            for network in networks:
                assert isinstance(network, Cabled)
                if weather is not None:
                    network.slow(weather)
                else:
                    network.mend()
            return
        for link in self.wire.links:
            if link is not self.front:
                link.weather = weather
