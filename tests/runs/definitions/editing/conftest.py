from tests.doors.rest import ana_api as ana_api
from tests.doors.rest import editor_api as editor_api
