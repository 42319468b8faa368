"""Forges: where the commits of an order become a pull request.

Plain Python; each forge's client is imported when one is used.

`proposing.propose` is the way in; `places` says which addresses may be reached at all; `github` and
`gitlab` speak to each kind.
"""
