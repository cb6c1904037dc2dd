package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// argument is one of a resource, of a block, or of what is computed.
type argument struct {
	Type      string              `json:"type"`
	List      bool                `json:"list"`
	Required  bool                `json:"required"`
	Updatable bool                `json:"updatable"`
	Block     map[string]argument `json:"block"`
}

type facts struct {
	Provider  map[string]argument            `json:"provider"`
	Arguments map[string]map[string]argument `json:"arguments"`
	Computed  map[string]map[string]argument `json:"computed"`
}

// thinlyDescribed are resources whose text never says "(Updatable)", and that are changed in place all the same
// (OCI, API: UpdateSecurityList).
var thinlyDescribed = map[string]bool{"oci_core_default_security_list": true}

func readFacts(file string) (*facts, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("OCI_SCHEMA: %w", err)
	}
	found := &facts{}
	if err := json.Unmarshal(content, found); err != nil {
		return nil, fmt.Errorf("OCI_SCHEMA %s: %w", file, err)
	}
	for name := range thinlyDescribed {
		for key, each := range found.Arguments[name] {
			each.Updatable = key != "manage_default_resource_id"
			found.Arguments[name][key] = each
		}
	}
	return found, nil
}

func (facts *facts) schemas(prefix string) map[string]*tfprotov5.Schema {
	found := map[string]*tfprotov5.Schema{}
	for name, arguments := range facts.Arguments {
		if strings.HasPrefix(name, "data.") == (prefix != "") {
			found[strings.TrimPrefix(name, prefix)] = schema(arguments, facts.Computed[name])
		}
	}
	return found
}

// schema has each argument, and the attributes that are computed.
func schema(arguments, computed map[string]argument) *tfprotov5.Schema {
	block := blockOf(arguments, true)
	for _, name := range sorted(computed) {
		block.Attributes = append(block.Attributes, &tfprotov5.SchemaAttribute{
			Name: name, Type: typeOf(computed[name]), Computed: true,
		})
	}
	if _, there := computed["id"]; !there {
		block.Attributes = append(block.Attributes, &tfprotov5.SchemaAttribute{
			Name: "id", Type: tftypes.String, Computed: true,
		})
	}
	return &tfprotov5.Schema{Version: 0, Block: block}
}

// blockOf is computed where nothing is given, at the top level: OCI fills most of it in.
func blockOf(arguments map[string]argument, isTop bool) *tfprotov5.SchemaBlock {
	block := &tfprotov5.SchemaBlock{}
	for _, name := range sorted(arguments) {
		given := arguments[name]
		if given.Type != "block" {
			block.Attributes = append(block.Attributes, &tfprotov5.SchemaAttribute{
				Name:      name,
				Type:      typeOf(given),
				Required:  given.Required,
				Optional:  !given.Required,
				Computed:  !given.Required && isTop,
				Sensitive: name == "private_key" || name == "private_key_password",
			})
			continue
		}
		nested := &tfprotov5.SchemaNestedBlock{
			TypeName: name, Block: blockOf(given.Block, false), Nesting: tfprotov5.SchemaNestedBlockNestingModeList,
		}
		if given.Required {
			nested.MinItems = 1
		}
		if !given.List {
			nested.MaxItems = 1
		}
		block.BlockTypes = append(block.BlockTypes, nested)
	}
	return block
}

func typeOf(given argument) tftypes.Type {
	switch given.Type {
	case "bool":
		return listed(given, tftypes.Bool)
	case "number":
		return listed(given, tftypes.Number)
	case "map":
		return listed(given, tftypes.Map{ElementType: tftypes.String})
	case "block":
		return tftypes.List{ElementType: objectOf(given.Block)}
	default:
		return listed(given, tftypes.String)
	}
}

func listed(given argument, element tftypes.Type) tftypes.Type {
	if given.List {
		return tftypes.List{ElementType: element}
	}
	return element
}

func objectOf(arguments map[string]argument) tftypes.Object {
	types := map[string]tftypes.Type{}
	for name, given := range arguments {
		types[name] = typeOf(given)
	}
	return tftypes.Object{AttributeTypes: types}
}

// all are arguments and what is computed, and the ID that every resource has.
func (facts *facts) all(name string) map[string]argument {
	found := map[string]argument{"id": {Type: "string"}}
	for key, each := range facts.Computed[name] {
		found[key] = each
	}
	for key, each := range facts.Arguments[name] {
		found[key] = each
	}
	return found
}

func sorted[Value any](named map[string]Value) []string {
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
