from typing import NamedTuple

class ClusterNode(NamedTuple):
    host: str
    port: int
