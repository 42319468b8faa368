"""The product as browsers, programs and operators meet it."""
