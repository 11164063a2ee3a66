"""A small CDK app with one of each difficult resource: assets, a custom resource, an HTTP API with throttled routes, a
schedule, a state machine.

Its one parameter, Value, is passed to the custom resource.
"""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_ssm as ssm
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

FUNCTIONS = Path(__file__).parent / "functions"


class Small(cdk.Stack):
    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, env=cdk.Environment(account="123456789012", region="us-east-1"))
        value = cdk.CfnParameter(self, "Value", default="one").value_as_string
        installation = cdk.CustomResource(
            self,
            "Installation",
            service_token=self._function("Installer", "installer.handler").function_arn,
            resource_type="Custom::Installation",
            properties={"Value": value},
        )
        ssm.StringParameter(
            self, "Parameter", parameter_name="/small/value", string_value=installation.get_att_string("Value")
        )
        self._doorbell()
        self._sweep()

    def _function(self, id: str, handler: str) -> lambda_.Function:
        code = lambda_.Code.from_asset(str(FUNCTIONS))
        return lambda_.Function(
            self, id, runtime=lambda_.Runtime.PYTHON_3_11, handler=handler, code=code, timeout=cdk.Duration.seconds(10)
        )

    def _doorbell(self) -> None:
        api = http.HttpApi(self, "Api", create_default_stage=False)
        stage = http.HttpStage(self, "Stage", http_api=api, auto_deploy=True)
        ring = integrations.HttpLambdaIntegration("Ring", self._function("Ring", "ring.handler"))
        api.add_routes(path="/ring/{token}/pods", methods=[http.HttpMethod.POST], integration=ring)
        cdk.CfnOutput(self, "Url", value=stage.url)

    def _sweep(self) -> None:
        end = '{"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}'
        machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(end),
        )
        scheduler.Schedule(
            self,
            "Sweep",
            schedule_name="small-sweep",
            schedule=scheduler.ScheduleExpression.rate(cdk.Duration.minutes(1)),
            target=targets.StepFunctionsStartExecution(machine),
            enabled=False,
        )
        cdk.CfnOutput(self, "MachineArn", value=machine.state_machine_arn)


app = cdk.App()
Small(app, "Small")
app.synth()
