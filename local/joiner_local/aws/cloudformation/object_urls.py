"""URLs of objects in S3, as requests to CloudFormation name templates."""

import urllib.parse


def bucket_and_key(url: str) -> tuple[str, str]:
    """Return bucket and key of the URL of an object.

    >>> bucket_and_key("http://127.0.0.1:4566/cdk-assets/a/b.json")
    ('cdk-assets', 'a/b.json')
    >>> bucket_and_key("https://cdk-assets.s3.us-east-1.amazonaws.com/b.json")
    ('cdk-assets', 'b.json')
    """
    parsed = urllib.parse.urlsplit(url)
    path = urllib.parse.unquote(parsed.path.lstrip("/"))
    host = parsed.hostname or ""
    if ".s3." in host:
        return host.split(".s3.")[0], path
    bucket, _, key = path.partition("/")
    return bucket, key
