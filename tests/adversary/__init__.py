"""The adversary: everybody makes every move that the product's doors allow, in any order, to get
something done behind a review.

`world` is who there is, what is asked for, and the book of effects that the steps write outside the
product. `doors` lists every door of the product from its own tables; `moves` says with what each is
tried, and makes the request. `oracle` reads raw rows and the book, and says what was done that
nobody let happen. `machine` puts them together for Hypothesis, `schemes` are attacks of several
moves by name.

`make test` plays a bounded game that is always the same; `make adversary ARGS="--minutes 60"` plays
others for as long as it is told.
"""
