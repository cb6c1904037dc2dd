package main

import (
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

const (
	mostAttachments     = 32
	mostMetadataBytes   = 32000
	leastVolumeGb       = 50
	mostVolumeGb        = 32768
	mostGroupsOfOneCard = 5
)

var (
	host    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	devices = regexp.MustCompile(`^/dev/oracleoci/oraclevd([b-z]|a[a-g])$`)
)

// cardRule is that of the card of an instance, or of a second one.
func cardRule(there *content, self string, card map[string]any) error {
	subnet := there.Resources[text(card, "subnet_id")]
	if subnet == nil || subnet.Type != "oci_core_subnet" {
		return refused("404-NotAuthorizedOrNotFound", "subnet %q is not there", text(card, "subnet_id"))
	}
	if text(card, "assign_public_ip") == "true" && flag(subnet.Values, "prohibit_public_ip_on_vnic") {
		return refused("400-InvalidParameter", "subnet %s allows no public address", text(subnet.Values, "display_name"))
	}
	groups := texts(card, "nsg_ids")
	if len(groups) > mostGroupsOfOneCard {
		return refused("400-LimitExceeded", "a card is in at most %d groups", mostGroupsOfOneCard)
	}
	for _, group := range groups {
		if text(there.Resources[group].Values, "vcn_id") != text(subnet.Values, "vcn_id") {
			return refused("400-InvalidParameter", "group %s is of another VCN", group)
		}
	}
	if name := text(card, "hostname_label"); name != "" && !host.MatchString(name) {
		return refused("400-InvalidParameter", "hostname_label %q", name)
	}
	return there.isFree(self, card, subnet.Values)
}

func (there *content) isFree(self string, card, subnet map[string]any) error {
	wide := netip.MustParsePrefix(text(subnet, "cidr_block"))
	given := text(card, "private_ip")
	if given != "" {
		address, err := netip.ParseAddr(given)
		if err != nil || !wide.Contains(address) || isReserved(wide, address) {
			return refused("400-InvalidParameter", "%s is no free address of subnet %s", given, wide)
		}
	}
	for _, kind := range []string{"oci_core_instance", "oci_core_vnic_attachment"} {
		for id, values := range there.of(kind) {
			for _, other := range blocks(values, "create_vnic_details") {
				if id == self || text(other, "subnet_id") != text(card, "subnet_id") {
					continue
				}
				if given != "" && text(other, "private_ip") == given {
					return refused("409-Conflict", "address %s is that of %s", given, id)
				}
				if text(card, "hostname_label") != "" && text(other, "hostname_label") == text(card, "hostname_label") {
					return refused("409-Conflict", "hostname_label %q is that of %s", text(card, "hostname_label"), id)
				}
			}
		}
	}
	return nil
}

// isReserved is so for the first two addresses of a subnet and its last (OCI, allocation of IP addresses).
func isReserved(wide netip.Prefix, address netip.Addr) bool {
	first := wide.Addr()
	return address == first || address == first.Next() || !wide.Contains(address.Next())
}

func instanceRule(there *content, before, wanted map[string]any) error {
	if err := inDomain(there, nil, wanted); err != nil {
		return err
	}
	if !isOneOf(text(wanted, "fault_domain"), "", "FAULT-DOMAIN-1", "FAULT-DOMAIN-2", "FAULT-DOMAIN-3") {
		return refused("400-InvalidParameter", "fault_domain %q", text(wanted, "fault_domain"))
	}
	isFlexible := strings.HasSuffix(text(wanted, "shape"), ".Flex")
	if isFlexible != (len(blocks(wanted, "shape_config")) == 1) {
		return refused("400-InvalidParameter", "shape %s, with shape_config %v", text(wanted, "shape"), wanted["shape_config"])
	}
	for _, source := range blocks(wanted, "source_details") {
		size, err := strconv.Atoi(text(source, "boot_volume_size_in_gbs"))
		if text(source, "boot_volume_size_in_gbs") != "" && (err != nil || size < leastVolumeGb || size > mostVolumeGb) {
			return refused("400-InvalidParameter", "boot_volume_size_in_gbs %q", text(source, "boot_volume_size_in_gbs"))
		}
		if !strings.HasPrefix(text(source, "source_id"), "ocid1.image.") {
			return refused("400-InvalidParameter", "source_id %q is no image", text(source, "source_id"))
		}
	}
	if err := metadataRule(before, wanted); err != nil {
		return err
	}
	for _, card := range blocks(wanted, "create_vnic_details") {
		if err := cardRule(there, text(wanted, "id"), card); err != nil {
			return err
		}
	}
	return nil
}

// metadataRule: what an instance was launched with stays (the provider's own text of `metadata`).
func metadataRule(before, wanted map[string]any) error {
	given, _ := wanted["metadata"].(map[string]any)
	bytes := 0
	for name, value := range given {
		bytes += len(name) + len(value.(string))
	}
	if bytes > mostMetadataBytes {
		return refused("400-InvalidParameter", "metadata of %d bytes, of %d at most", bytes, mostMetadataBytes)
	}
	if old, was := before["metadata"].(map[string]any); was {
		for _, name := range []string{"user_data", "ssh_authorized_keys"} {
			if !reflect.DeepEqual(old[name], given[name]) {
				return refused("400-InvalidParameter", "metadata %s of a launched instance cannot change", name)
			}
		}
	}
	return nil
}

func vnicAttachmentRule(there *content, _, wanted map[string]any) error {
	machine := there.Resources[text(wanted, "instance_id")].Values
	if number(wanted, "nic_index") > 0 && !strings.HasPrefix(text(machine, "shape"), "BM.") {
		return refused("400-InvalidParameter", "shape %s has one card", text(machine, "shape"))
	}
	for _, card := range blocks(wanted, "create_vnic_details") {
		if err := cardRule(there, text(wanted, "id"), card); err != nil {
			return err
		}
	}
	return nil
}

func volumeRule(there *content, before, wanted map[string]any) error {
	if err := inDomain(there, nil, wanted); err != nil {
		return err
	}
	size, err := strconv.Atoi(text(wanted, "size_in_gbs"))
	if err != nil || size < leastVolumeGb || size > mostVolumeGb {
		return refused("400-InvalidParameter", "size_in_gbs %q", text(wanted, "size_in_gbs"))
	}
	if was, err := strconv.Atoi(text(before, "size_in_gbs")); err == nil && size < was {
		return refused("400-InvalidParameter", "a volume does not become smaller: %d GB to %d GB", was, size)
	}
	units, err := strconv.Atoi(text(wanted, "vpus_per_gb"))
	if text(wanted, "vpus_per_gb") != "" && (err != nil || units < 0 || units > 120 || units%10 != 0) {
		return refused("400-InvalidParameter", "vpus_per_gb %q", text(wanted, "vpus_per_gb"))
	}
	return nil
}

func attachmentRule(there *content, _, wanted map[string]any) error {
	volume, machine := there.Resources[text(wanted, "volume_id")].Values, there.Resources[text(wanted, "instance_id")].Values
	if text(volume, "availability_domain") != text(machine, "availability_domain") {
		return refused("400-InvalidParameter", "volume %s is in %s, instance %s in %s",
			text(volume, "display_name"), text(volume, "availability_domain"),
			text(machine, "display_name"), text(machine, "availability_domain"))
	}
	if device := text(wanted, "device"); device != "" && !devices.MatchString(device) {
		return refused("400-InvalidParameter", "device %q", device)
	}
	of := there.others("oci_core_volume_attachment", "instance_id", wanted)
	if len(of) >= mostAttachments {
		return refused("400-LimitExceeded", "instance %s has %d volumes already", text(machine, "display_name"), len(of))
	}
	for _, id := range of {
		if other := there.Resources[id].Values; text(wanted, "device") != "" && text(other, "device") == text(wanted, "device") {
			return refused("409-Conflict", "device %s of %s is taken", text(wanted, "device"), text(machine, "display_name"))
		}
	}
	return there.isShared(volume, wanted)
}

// isShared: another instance may have the volume where every attachment of it is shareable.
func (there *content) isShared(volume, wanted map[string]any) error {
	others := there.others("oci_core_volume_attachment", "volume_id", wanted)
	if len(others) >= mostAttachments {
		return refused("400-LimitExceeded", "volume %s has %d instances already", text(volume, "display_name"), len(others))
	}
	for _, id := range others {
		other := there.Resources[id].Values
		if !flag(other, "is_shareable") || !flag(wanted, "is_shareable") {
			return refused("409-Conflict", "volume %s is attached, and not shareable", text(volume, "display_name"))
		}
		if text(other, "attachment_type") != text(wanted, "attachment_type") || flag(other, "is_read_only") != flag(wanted, "is_read_only") {
			return refused("409-Conflict", "volume %s is attached in another way", text(volume, "display_name"))
		}
		if text(other, "instance_id") == text(wanted, "instance_id") {
			return refused("409-Conflict", "volume %s is attached to this instance", text(volume, "display_name"))
		}
	}
	return nil
}
