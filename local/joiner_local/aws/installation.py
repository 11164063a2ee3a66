"""Install the services of the local AWS in this process: the one place that applies all changes to moto and botocore.

The modules below replace or wrap these attributes for the whole process. `attribute_patches` records each change, and a
test compares the record with this list::

    api_gateway.http_apis
        ApiGatewayV2Response.update_stage
    aws_lambda.event_source_mappings
        LambdaBackend.create_event_source_mapping
    aws_lambda.function_invocations
        moto.core.config.default_user_config LambdaFunction.invoke LambdaStorage.del_function
        LambdaBackend.send_log_event
    aws_lambda.function_settings
        LambdaBackend.create_function LambdaBackend.update_function_configuration
        LambdaBackend.update_function_code LambdaFunction.__init__ LambdaFunction.update_configuration
        LambdaFunction.get_configuration LambdaStorage.publish_version LambdaBackend.put_function_concurrency
        LambdaBackend.add_permission
    cloudformation.cloudformation_api
        moto.cloudformation.urls.url_paths
    dynamodb.condition_expressions
        OpLessThan.expr OpLessThanOrEqual.expr OpGreaterThan.expr OpGreaterThanOrEqual.expr OpEqual.expr OpNotEqual.expr
        FuncBetween.expr FuncIn.expr FuncContains.expr
    dynamodb.dynamodb_tables
        Table.query DynamoHandler.put_item DynamoHandler.update_item DynamoHandler.delete_item
        DynamoHandler.get_item DynamoHandler.query DynamoHandler.scan DynamoHandler.batch_get_item
        DynamoHandler.batch_write_item DynamoHandler.transact_write_items DynamoHandler.transact_get_items
        DynamoDBBackend.transact_write_items DynamoDBBackend.update_item UpdateExpressionExecutor.execute
    ec2.capacity_pools
        EC2Response.describe_availability_zones EC2Response.get_spot_placement_scores
    ec2.console_outputs
        EC2Response.get_console_output
    ec2.ebs_volumes
        EC2Response.get_ebs_default_kms_key_id EC2Response.modify_ebs_default_kms_key_id
        EC2Response.reset_ebs_default_kms_key_id EC2Response.get_ebs_encryption_by_default
        EC2Response.enable_ebs_encryption_by_default EC2Response.disable_ebs_encryption_by_default
        Snapshot.owner_alias
    ec2.ec2_prices
        EC2Response.describe_spot_price_history
    ec2.eventual_consistency
        EC2Response.describe_instances EC2Response.create_tags EC2Response.terminate_instances
    ec2.fleets
        EC2Response.create_fleet EC2Response.describe_fleets
    ec2.instance_lifecycle
        EC2Response.run_instances EC2Response.terminate_instances EC2Response.stop_instances
        EC2Response.start_instances InstanceBackend.terminate_instances Instance.__init__
    ec2.instance_statuses
        EC2Response.describe_instance_status
    ec2.launch_templates
        EC2Response.describe_launch_template_versions EC2Response.create_launch_template
        EC2Response.create_launch_template_version EC2Response.delete_launch_template
        EC2Response.describe_launch_templates
    ec2.ipv6_addresses
        Subnet.ipv6_cidr_block_association_set NetworkInterface.instance_ipv6_address_list Instance.ipv6_address
    ec2.network_interfaces
        NetworkInterface.attachment
    ec2.placement_groups
        EC2Response.create_placement_group EC2Response.delete_placement_group
        EC2Response.describe_placement_groups moto.ec2.utils.filter_dict_attribute_mapping
    ec2.public_images
        AmiBackend._load_amis
    ec2.reservation_api
        EC2Response.describe_capacity_reservations EC2Response.describe_instances
        moto.ec2.utils.filter_dict_attribute_mapping
    ec2.reserved_instances
        EC2Response.describe_reserved_instances
    ec2.shared_resources
        Subnet.owner_id SecurityGroup.owner_id
    eks.access_entries
        EKSResponse.create_access_entry EKSResponse.describe_access_entry EKSResponse.list_access_entries
        EKSResponse.update_access_entry EKSResponse.delete_access_entry EKSResponse.associate_access_policy
        EKSResponse.disassociate_access_policy EKSResponse.list_associated_access_policies
        EKSResponse.list_access_policies
    eks.eks_clusters
        moto.eks.urls.url_paths Cluster.access_config EKSResponse.describe_cluster_versions
        EKSResponse.list_addons EKSResponse.list_pod_identity_associations
    eventbridge.event_rules
        Rule.send_to_targets EventsBackend.put_rule EventsBackend.put_events
    iam.encoded_messages
        TokenResponse.decode_authorization_message
    iam.instance_profile_listing
        IamResponse.list_instance_profiles
    moto_patches.backend_lookups
        BackendDict.__getitem__
    moto_patches.ec2_lookups
        AmiBackend.describe_images TaggedEC2Resource.get_tags InstanceBackend.get_instance
        InstanceBackend.all_reservations InstanceBackend.get_multi_instances_by_id
        InstanceBackend.get_reservations_by_instance_ids
    moto_patches.model_caches
        JSONFileLoader.load_file moto.backends.list_of_moto_modules moto.core.responses.method_names_from_class
    moto_patches.queue_locks
        Queue.add_message Queue.delete_message SQSBackend.change_message_visibility SQSBackend.purge_queue
        SQSBackend.is_message_valid_based_on_retention_period SQSBackend.receive_message SQSBackend.send_message
        Queue.attributes
    moto_patches.response_writer
        ResponseSerializer.get_value BaseJSONSerializer._serialize_type_structure moto.core.serialize.xmltodict
    moto_patches.service_limits
        DynamoDBBackend.update_item DynamoDBBackend.transact_write_items S3Backend.put_object
        S3Backend.delete_objects S3Backend.put_bucket_lifecycle_configuration
        SimpleSystemManagerBackend.put_parameter IAMBackend.put_role_policy SQSBackend.create_queue
        EventsBackend.put_rule EventsBackend.put_targets LogsBackend.create_log_group
        LogsBackend.put_retention_policy LogsBackend.put_metric_filter CloudWatchBackend.put_metric_alarm
        Api.create_route Api.create_stage InstanceBackend.terminate_instances EC2Response.describe_instances
        EC2Response.describe_subnets EC2Response.describe_security_groups EC2Response.describe_images
        EC2Response.describe_volumes EC2Response.describe_instance_status
    scheduler.schedules
        EventBridgeSchedulerBackend.create_schedule EventBridgeSchedulerBackend.update_schedule
    ssm.image_parameters
        ParameterDict._check_loading_status

Every other attribute of moto, botocore and boto3 is unchanged. Only the process of the local AWS is patched: the node
agent, the authenticator, the tests and the `joiner` command use botocore and boto3 as they are.
"""

from dataclasses import dataclass

from joiner_local.aws.call_counts import CallCounts
from joiner_local.aws.ec2.request_limits import Ec2RequestLimits
from joiner_local.aws.fault_injection.fault_rules import FaultRules
from joiner_local.aws.local_aws import LocalAws


@dataclass(frozen=True, slots=True)
class RequestObservers:
    """What the server itself asks at each request."""

    counts: CallCounts
    faults: FaultRules
    limits: Ec2RequestLimits


def install_services(aws: LocalAws) -> RequestObservers:
    """Patch moto and botocore, and install every service.

    Call it once a process, before moto is imported and after the environment of the process is set: moto reads both at
    import. A service is an argument of those that use it, so the order of the calls below follows from the code.
    """
    from joiner_local.aws.moto_patches import model_caches

    model_caches.cache_service_models()
    from joiner_local.aws import call_counts
    from joiner_local.aws.api_gateway import http_apis
    from joiner_local.aws.aws_lambda import event_source_mappings, function_invocations
    from joiner_local.aws.cloudformation import cloudformation_api
    from joiner_local.aws.cloudtrail import event_lookup
    from joiner_local.aws.cloudwatch.log_shipping import LogShipper
    from joiner_local.aws.dynamodb import dynamodb_tables
    from joiner_local.aws.ec2 import request_limits
    from joiner_local.aws.eks import eks_clusters
    from joiner_local.aws.eventbridge import event_rules
    from joiner_local.aws.eventbridge.target_delivery import EventTargets
    from joiner_local.aws.fault_injection import fault_knobs
    from joiner_local.aws.iam import iam_middleware, instance_profile_listing
    from joiner_local.aws.moto_patches import backend_lookups, queue_locks, response_writer, service_limits
    from joiner_local.aws.pricing import price_list
    from joiner_local.aws.savings_plans import savings_plans_api
    from joiner_local.aws.scheduler import schedules
    from joiner_local.aws.ssm import image_parameters
    from joiner_local.aws.step_functions import step_functions_api

    model_caches.cache_service_lookups()
    backend_lookups.install()
    response_writer.replace_response_serializers()
    counts, limits = call_counts.install(aws), request_limits.install(aws)
    dynamodb_tables.install(aws)
    queue_locks.install()
    logs = LogShipper()
    functions = function_invocations.install(aws, logs)
    event_source_mappings.install(functions)
    machines = step_functions_api.install(aws, functions, logs)
    targets = EventTargets(functions, machines, logs)
    event_rules.install(targets)
    _install_ec2(aws)
    eks_clusters.install(aws)
    instance_profile_listing.install()
    image_parameters.install()
    price_list.install(aws)
    savings_plans_api.install(aws)
    local_address = http_apis.install(aws, functions, logs)
    cloudformation_api.install(aws, local_address)
    schedules.install(aws, targets)
    event_lookup.install(aws)
    service_limits.install()  # the last patch: its checks precede everything else that a method does
    faults = fault_knobs.install(aws, machines)
    iam_middleware.install(aws, machines)
    return RequestObservers(counts, faults, limits)


def _install_ec2(aws: LocalAws) -> None:
    from joiner_local.aws.ec2 import (
        capacity_pools,
        console_outputs,
        ebs_volumes,
        ec2_prices,
        eventual_consistency,
        fleets,
        instance_lifecycle,
        instance_metadata,
        instance_statuses,
        launch_templates,
        reservation_api,
        reserved_instances,
        spot_interruptions,
        spot_role,
    )
    from joiner_local.aws.fault_injection import early_terminations
    from joiner_local.aws.moto_patches import ec2_lookups

    ec2_prices.install()
    capacity_pools.install(aws)
    reservation_api.install(aws)
    reserved_instances.install(aws)
    ec2_lookups.install()
    launch_templates.install()
    _install_ec2_networks(aws)
    ebs_volumes.install()
    instance_lifecycle.install(aws)
    instance_metadata.install(aws)
    early_terminations.install(aws)
    eventual_consistency.install(aws)
    spot_role.install(aws)
    spot_interruptions.install(aws)
    instance_statuses.install(aws)
    console_outputs.install(aws)
    fleets.install()


def _install_ec2_networks(aws: LocalAws) -> None:
    from joiner_local.aws.ec2 import network_interfaces, placement_groups, shared_resources

    network_interfaces.install()
    placement_groups.install()
    shared_resources.install(aws)
