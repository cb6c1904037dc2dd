"""The providers that Gridwright brings along, by the name that a grid spec gives them."""

BUILT_IN = {
    "local": "gridwright.providers.local.provider:LOCAL",
    "lab": "gridwright.providers.lab.provider:LAB",
    "site": "gridwright.providers.site.provider:SITE",
    "aws": "gridwright.providers.aws.provider:AWS",
    "oci": "gridwright.providers.oci.provider:OCI",
    "azure": "gridwright.providers.predicted_cloud:AZURE",
    "google": "gridwright.providers.predicted_cloud:GOOGLE",
}
