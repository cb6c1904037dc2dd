"""The providers that Gridwright brings along, by the name that a grid spec gives them."""

BUILT_IN = {
    "local": "gridwright.providers.local.provider:LOCAL",
    "lab": "gridwright.providers.lab.provider:LAB",
    "site": "gridwright.providers.site.provider:SITE",
    "aws": "gridwright.providers.aws.provider:AWS",
    "oci": "gridwright.providers.oci.provider:OCI",
    "azure": "gridwright.providers.azure.provider:AZURE",
    "google": "gridwright.providers.google.provider:GOOGLE",
}
