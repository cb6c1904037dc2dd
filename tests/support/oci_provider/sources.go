package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// sources are answers of data sources.
var sources = map[string]func(asked map[string]any) map[string]any{
	"oci_identity_availability_domains": func(asked map[string]any) map[string]any {
		var found []any
		for _, name := range domains {
			found = append(found, map[string]any{"name": name, "compartment_id": asked["compartment_id"]})
		}
		return map[string]any{"availability_domains": found}
	},
	"oci_core_services": func(map[string]any) map[string]any {
		return map[string]any{"services": []any{service("OCI IAD Object Storage", "oci-iad-objectstorage"),
			service("All IAD Services In Oracle Services Network", "all-iad-services-in-oracle-services-network")}}
	},
	"oci_objectstorage_namespace": func(map[string]any) map[string]any {
		return map[string]any{"namespace": "examplespace"}
	},
	"oci_core_images": images,
}

func service(name, block string) map[string]any {
	return map[string]any{"id": "ocid1.service.oc1.iad." + block, "name": name, "cidr_block": block, "description": name}
}

// releases are those of which Oracle has platform images.
var releases = map[string][]string{
	"Oracle Linux":     {"8", "9", "10"},
	"Canonical Ubuntu": {"22.04", "24.04"},
}

func images(asked map[string]any) map[string]any {
	system, version := text(asked, "operating_system"), text(asked, "operating_system_version")
	if !isOneOf(version, releases[system]...) {
		return map[string]any{"images": []any{}}
	}
	name := strings.ToLower(strings.ReplaceAll(system+version+text(asked, "shape"), " ", ""))
	return map[string]any{"images": []any{map[string]any{
		"id": "ocid1.image.oc1.iad." + name, "display_name": name,
		"operating_system": system, "operating_system_version": version,
	}}}
}

// filled are values that the cloud gives, by type of resource.
var filled = map[string]func(there *content, values map[string]any) map[string]any{
	"oci_core_vcn": func(_ *content, values map[string]any) map[string]any {
		id := text(values, "id")
		return map[string]any{
			"default_security_list_id": "ocid1.securitylist.oc1.iad.of." + id,
			"default_route_table_id":   "ocid1.routetable.oc1.iad.of." + id,
			"default_dhcp_options_id":  "ocid1.dhcpoptions.oc1.iad.of." + id,
		}
	},
	"oci_core_instance": func(there *content, values map[string]any) map[string]any {
		found := map[string]any{"state": "RUNNING"}
		for _, card := range blocks(values, "create_vnic_details") {
			found["private_ip"] = text(card, "private_ip")
			if text(card, "assign_public_ip") == "true" {
				found["public_ip"] = fmt.Sprintf("192.0.2.%d", 1+there.Made%250)
			}
		}
		return found
	},
	"oci_core_volume_attachment": func(there *content, values map[string]any) map[string]any {
		iqn := "iqn.2015-12.com.oracleiaas:" + text(values, "volume_id")
		return map[string]any{"iqn": iqn, "ipv4": fmt.Sprintf("169.254.2.%d", 2+there.Made%250), "port": 3260.0}
	},
	"oci_objectstorage_preauthrequest": func(there *content, values map[string]any) map[string]any {
		uri := fmt.Sprintf("/p/secret%d/n/examplespace/b/%s/o/%s", there.Made, text(values, "bucket"), text(values, "object_name"))
		return map[string]any{"access_uri": uri, "par_id": fmt.Sprintf("par%d", there.Made)}
	},
	"oci_file_storage_mount_target": func(there *content, values map[string]any) map[string]any {
		return map[string]any{
			"export_set_id": "ocid1.exportset.oc1.iad.of." + text(values, "id"),
			"ip_address":    there.freeAddress(text(values, "subnet_id")),
		}
	},
	"oci_lustre_file_storage_lustre_file_system": func(there *content, values map[string]any) map[string]any {
		return map[string]any{"management_service_address": there.freeAddress(text(values, "subnet_id")), "lnet": "tcp"}
	},
}

// freeAddress is one of a subnet, from its middle on: what Oracle runs takes addresses by itself.
func (there *content) freeAddress(subnet string) string {
	found := netip.MustParsePrefix(text(there.Resources[subnet].Values, "cidr_block")).Addr().Next().Next()
	for step := 0; step < there.Made%100; step++ {
		found = found.Next()
	}
	return found.String()
}
