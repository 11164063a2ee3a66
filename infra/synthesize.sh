# Runs the CDK app with the Python of the virtual environment. The CDK command line starts it (cdk.json).
python="${VIRTUAL_ENV:-.venv}/bin/python"
test -x "$python" || python=python3
# jsii warns of Node.js 20, which the CDK still runs on, in thirteen lines.
JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20 exec "$python" app.py
