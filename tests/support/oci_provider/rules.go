package main

import (
	"regexp"
	"strings"
)

// rules are what OCI refuses, by type of resource.
var rules = map[string]rule{
	"oci_core_vcn":                                         vcnRule,
	"oci_core_subnet":                                      subnetRule,
	"oci_core_route_table":                                 routeTableRule,
	"oci_core_internet_gateway":                            oneInVcn("oci_core_internet_gateway"),
	"oci_core_nat_gateway":                                 oneInVcn("oci_core_nat_gateway"),
	"oci_core_service_gateway":                             oneInVcn("oci_core_service_gateway"),
	"oci_core_network_security_group_security_rule":        securityRule,
	"oci_core_instance":                                    instanceRule,
	"oci_core_vnic_attachment":                             vnicAttachmentRule,
	"oci_core_volume":                                      volumeRule,
	"oci_core_volume_attachment":                           attachmentRule,
	"oci_objectstorage_bucket":                             bucketRule,
	"oci_objectstorage_object":                             objectRule,
	"oci_objectstorage_preauthrequest":                     requestRule,
	"oci_file_storage_file_system":                         inDomain,
	"oci_file_storage_mount_target":                        mountTargetRule,
	"oci_file_storage_export":                              exportRule,
	"oci_lustre_file_storage_lustre_file_system":           lustreRule,
	"oci_lustre_file_storage_object_storage_link":          linkRule,
	"oci_identity_dynamic_group":                           dynamicGroupRule,
	"oci_identity_policy":                                  policyRule,
	"oci_bastion_bastion":                                  bastionRule,
	"oci_cluster_placement_groups_cluster_placement_group": inDomain,
}

// domains are those of a region with three; every tenancy has its own prefix.
var domains = []string{"Uocm:US-ASHBURN-AD-1", "Uocm:US-ASHBURN-AD-2", "Uocm:US-ASHBURN-AD-3"}

func text(values map[string]any, name string) string {
	found, _ := values[name].(string)
	return found
}

func number(values map[string]any, name string) float64 {
	found, _ := values[name].(float64)
	return found
}

func flag(values map[string]any, name string) bool {
	found, _ := values[name].(bool)
	return found
}

// blocks are those of a name; none where there are none.
func blocks(values map[string]any, name string) []map[string]any {
	elements, _ := values[name].([]any)
	var found []map[string]any
	for _, each := range elements {
		if block, isBlock := each.(map[string]any); isBlock {
			found = append(found, block)
		}
	}
	return found
}

func texts(values map[string]any, name string) []string {
	elements, _ := values[name].([]any)
	var found []string
	for _, each := range elements {
		found = append(found, each.(string))
	}
	return found
}

func isOneOf(value string, known ...string) bool {
	for _, each := range known {
		if each == value {
			return true
		}
	}
	return false
}

func inDomain(_ *content, _, wanted map[string]any) error {
	if !isOneOf(text(wanted, "availability_domain"), domains...) {
		return refused("400-InvalidParameter", "there is no availability domain %q", text(wanted, "availability_domain"))
	}
	return nil
}

// others of a type that have the same value of an argument.
func (there *content) others(kind, name string, wanted map[string]any) []string {
	var found []string
	for id, values := range there.of(kind) {
		if id != text(wanted, "id") && text(values, name) == text(wanted, name) {
			found = append(found, id)
		}
	}
	return found
}

func oneInVcn(kind string) rule {
	return func(there *content, _, wanted map[string]any) error {
		if others := there.others(kind, "vcn_id", wanted); len(others) > 0 {
			return refused("400-LimitExceeded", "%s has %s already", text(wanted, "vcn_id"), others[0])
		}
		return nil
	}
}

var statement = regexp.MustCompile(
	`^Allow (dynamic-group|group|service|any-user) ?(\S*) to (inspect|read|use|manage) \S+(-\S+)* in ` +
		`(tenancy|compartment \S+|compartment id ocid1\.compartment\.\S+)( where .+)?$`,
)

func policyRule(there *content, _, wanted map[string]any) error {
	if len(there.others("oci_identity_policy", "name", wanted)) > 0 {
		return refused("409-PolicyAlreadyExists", "policy %q is there already", text(wanted, "name"))
	}
	for _, each := range texts(wanted, "statements") {
		parts := statement.FindStringSubmatch(each)
		if parts == nil || !isBalanced(each) {
			return refused("400-InvalidParameter", "the policy cannot be parsed: %s", each)
		}
		if parts[1] == "dynamic-group" && !there.hasNamed("oci_identity_dynamic_group", parts[2]) {
			return refused("400-InvalidParameter", "no dynamic group %s: %s", parts[2], each)
		}
	}
	return nil
}

func (there *content) hasNamed(kind, name string) bool {
	for _, values := range there.of(kind) {
		if text(values, "name") == name {
			return true
		}
	}
	return false
}

func isBalanced(words string) bool {
	return strings.Count(words, "{") == strings.Count(words, "}") && strings.Count(words, "'")%2 == 0
}

var (
	matching = regexp.MustCompile(`^((ANY|ALL) \{.+\}|\S+ = '[^']+')$`)
	memberId = regexp.MustCompile(`instance\.id = '([^']+)'`)
)

func dynamicGroupRule(there *content, _, wanted map[string]any) error {
	if len(there.others("oci_identity_dynamic_group", "name", wanted)) > 0 {
		return refused("409-DynamicGroupAlreadyExists", "dynamic group %q is there already", text(wanted, "name"))
	}
	if !strings.HasPrefix(text(wanted, "compartment_id"), "ocid1.tenancy.") {
		return refused("400-InvalidParameter", "dynamic groups are made in the tenancy, not in %s", text(wanted, "compartment_id"))
	}
	written := text(wanted, "matching_rule")
	if !matching.MatchString(written) || !isBalanced(written) {
		return refused("400-InvalidParameter", "the matching rule cannot be parsed: %s", written)
	}
	for _, member := range memberId.FindAllStringSubmatch(written, -1) {
		if there.Resources[member[1]] == nil {
			return refused("400-InvalidParameter", "no instance %s: %s", member[1], written)
		}
	}
	return nil
}

var alphanumeric = regexp.MustCompile(`^[A-Za-z0-9]{1,255}$`)

func bastionRule(_ *content, _, wanted map[string]any) error {
	if name := text(wanted, "name"); name != "" && !alphanumeric.MatchString(name) {
		return refused("400-InvalidParameter", "the name of a bastion is of letters and digits: %q", name)
	}
	if text(wanted, "bastion_type") != "STANDARD" {
		return refused("400-InvalidParameter", "bastion_type is STANDARD, not %q", text(wanted, "bastion_type"))
	}
	return nil
}
