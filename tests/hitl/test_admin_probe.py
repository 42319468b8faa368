import pytest
from runs import definitions
@pytest.mark.django_db
def test_x(templates):
    t = definitions.current("writing")
    definitions.edit_template("writing", steps=[{**t.steps[0], "choices": None}])
