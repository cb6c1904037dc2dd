package main

import (
	"net/netip"
	"regexp"
	"strings"
)

const mostRulesOfAGroup = 120

var label = regexp.MustCompile(`^[a-z][a-z0-9]{0,14}$`)

func vcnRule(_ *content, _, wanted map[string]any) error {
	given := texts(wanted, "cidr_blocks")
	if len(given) == 0 || len(given) > 5 {
		return refused("400-InvalidParameter", "a VCN has one to five CIDR blocks, not %d", len(given))
	}
	for _, each := range given {
		parsed, err := netip.ParsePrefix(each)
		if err != nil || parsed.Masked() != parsed || parsed.Bits() < 16 || parsed.Bits() > 30 {
			return refused("400-InvalidParameter", "CIDR block %s is none of /16 to /30", each)
		}
	}
	return labelled(wanted)
}

func labelled(wanted map[string]any) error {
	if given := text(wanted, "dns_label"); given != "" && !label.MatchString(given) {
		return refused("400-InvalidParameter", "dns_label %q: at most 15 small letters and digits, a letter first", given)
	}
	return nil
}

func subnetRule(there *content, _, wanted map[string]any) error {
	wide, err := netip.ParsePrefix(text(wanted, "cidr_block"))
	if err != nil || wide.Masked() != wide {
		return refused("400-InvalidParameter", "cidr_block %q", text(wanted, "cidr_block"))
	}
	if !there.isWithin(wide, text(wanted, "vcn_id")) {
		return refused("400-InvalidParameter", "subnet %s is not within its VCN", wide)
	}
	for _, other := range there.others("oci_core_subnet", "vcn_id", wanted) {
		values := there.Resources[other].Values
		if netip.MustParsePrefix(text(values, "cidr_block")).Overlaps(wide) {
			return refused("400-InvalidParameter", "subnet %s overlaps %s", wide, text(values, "cidr_block"))
		}
		if text(wanted, "dns_label") != "" && text(values, "dns_label") == text(wanted, "dns_label") {
			return refused("409-Conflict", "dns_label %q is another subnet's", text(wanted, "dns_label"))
		}
	}
	return labelled(wanted)
}

func (there *content) isWithin(wide netip.Prefix, vcn string) bool {
	for _, each := range texts(there.Resources[vcn].Values, "cidr_blocks") {
		whole := netip.MustParsePrefix(each)
		if whole.Contains(wide.Addr()) && whole.Bits() <= wide.Bits() {
			return true
		}
	}
	return false
}

func routeTableRule(there *content, _, wanted map[string]any) error {
	seen := map[string]bool{}
	for _, each := range blocks(wanted, "route_rules") {
		destination, gateway := text(each, "destination"), text(each, "network_entity_id")
		if seen[destination] {
			return refused("400-InvalidParameter", "two rules for %s", destination)
		}
		seen[destination] = true
		isService := there.Resources[gateway] != nil && there.Resources[gateway].Type == "oci_core_service_gateway"
		if isService != (text(each, "destination_type") == "SERVICE_CIDR_BLOCK") {
			return refused("400-InvalidParameter", "the way to %s goes through %s", destination, gateway)
		}
		if !isService {
			if _, err := netip.ParsePrefix(destination); err != nil {
				return refused("400-InvalidParameter", "destination %q is no CIDR block", destination)
			}
		}
	}
	return nil
}

func securityRule(there *content, _, wanted map[string]any) error {
	others := there.others("oci_core_network_security_group_security_rule", "network_security_group_id", wanted)
	if len(others) >= mostRulesOfAGroup {
		return refused("400-LimitExceeded", "a network security group has at most %d rules", mostRulesOfAGroup)
	}
	end, kind := "source", "source_type"
	switch text(wanted, "direction") {
	case "EGRESS":
		end, kind = "destination", "destination_type"
	case "INGRESS":
	default:
		return refused("400-InvalidParameter", "direction %q", text(wanted, "direction"))
	}
	if text(wanted, end) == "" {
		return refused("400-InvalidParameter", "a rule %s has a %s", text(wanted, "direction"), end)
	}
	if err := there.isEnd(text(wanted, end), text(wanted, kind), text(wanted, "network_security_group_id")); err != nil {
		return err
	}
	return portsOf(wanted)
}

func (there *content) isEnd(end, kind, group string) error {
	other := there.Resources[end]
	switch kind {
	case "NETWORK_SECURITY_GROUP":
		if other == nil || text(other.Values, "vcn_id") != text(there.Resources[group].Values, "vcn_id") {
			return refused("400-InvalidParameter", "%s is no network security group of this VCN", end)
		}
	case "CIDR_BLOCK":
		if parsed, err := netip.ParsePrefix(end); err != nil || parsed.Masked() != parsed {
			return refused("400-InvalidParameter", "%q is no CIDR block", end)
		}
	case "SERVICE_CIDR_BLOCK":
		if !strings.HasSuffix(end, "-services-in-oracle-services-network") {
			return refused("400-InvalidParameter", "%q is no CIDR block of a service", end)
		}
	default:
		return refused("400-InvalidParameter", "type %q of %s", kind, end)
	}
	return nil
}

func portsOf(wanted map[string]any) error {
	for name, protocol := range map[string]string{"tcp_options": "6", "udp_options": "17", "icmp_options": "1"} {
		if len(blocks(wanted, name)) > 0 && text(wanted, "protocol") != protocol {
			return refused("400-InvalidParameter", "%s with protocol %s", name, text(wanted, "protocol"))
		}
		for _, options := range blocks(wanted, name) {
			for _, ports := range blocks(options, "destination_port_range") {
				least, most := number(ports, "min"), number(ports, "max")
				if least < 1 || most < least || most > 65535 {
					return refused("400-InvalidParameter", "ports %v to %v", least, most)
				}
			}
		}
	}
	if !isOneOf(text(wanted, "protocol"), "all", "1", "6", "17", "58") {
		return refused("400-InvalidParameter", "protocol %q", text(wanted, "protocol"))
	}
	return nil
}
