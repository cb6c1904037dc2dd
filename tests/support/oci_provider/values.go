package main

import (
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// unknown is a value that is known after the apply.
type unknown struct{}

// decoded gives nil, unknown, string, bool, float64, []any or map[string]any.
func decoded(value tftypes.Value) any {
	if !value.IsKnown() {
		return unknown{}
	}
	if value.IsNull() {
		return nil
	}
	var text string
	if value.As(&text) == nil {
		return text
	}
	var flag bool
	if value.As(&flag) == nil {
		return flag
	}
	number := new(big.Float)
	if value.As(&number) == nil {
		found, _ := number.Float64()
		return found
	}
	var list []tftypes.Value
	if value.As(&list) == nil {
		found := make([]any, 0, len(list))
		for _, each := range list {
			found = append(found, decoded(each))
		}
		return found
	}
	named := map[string]tftypes.Value{}
	if err := value.As(&named); err != nil {
		panic(fmt.Sprintf("%s: %v", value.Type(), err))
	}
	found := map[string]any{}
	for name, each := range named {
		found[name] = decoded(each)
	}
	return found
}

// encoded is the way back; nested blocks that are not there are empty lists.
func encoded(kind tftypes.Type, value any) tftypes.Value {
	switch value := value.(type) {
	case unknown:
		return tftypes.NewValue(kind, tftypes.UnknownValue)
	case nil:
		return tftypes.NewValue(kind, nil)
	case []any:
		elements := make([]tftypes.Value, 0, len(value))
		for _, each := range value {
			elements = append(elements, encoded(kind.(tftypes.List).ElementType, each))
		}
		return tftypes.NewValue(kind, elements)
	case map[string]any:
		if of, isMap := kind.(tftypes.Map); isMap {
			named := map[string]tftypes.Value{}
			for name, each := range value {
				named[name] = encoded(of.ElementType, each)
			}
			return tftypes.NewValue(kind, named)
		}
		named := map[string]tftypes.Value{}
		for name, of := range kind.(tftypes.Object).AttributeTypes {
			named[name] = encoded(of, value[name])
		}
		return tftypes.NewValue(kind, named)
	default:
		return tftypes.NewValue(kind, value)
	}
}

// withLists gives blocks that nobody has given as empty lists, at every depth, as the protocol wants them.
func withLists(arguments map[string]argument, values map[string]any) map[string]any {
	found := map[string]any{}
	for name, value := range values {
		found[name] = value
	}
	for name, given := range arguments {
		if given.Type != "block" {
			continue
		}
		elements, _ := found[name].([]any)
		full := make([]any, 0, len(elements))
		for _, each := range elements {
			full = append(full, withLists(given.Block, each.(map[string]any)))
		}
		found[name] = full
	}
	return found
}

func (provider *provider) read(name string, value *tfprotov5.DynamicValue) (map[string]any, error) {
	parsed, err := value.Unmarshal(objectOf(provider.facts.all(name)))
	if err != nil || parsed.IsNull() {
		return nil, err
	}
	return decoded(parsed).(map[string]any), nil
}

func (provider *provider) write(name string, values map[string]any) (*tfprotov5.DynamicValue, error) {
	kind := objectOf(provider.facts.all(name))
	var value tftypes.Value
	if values == nil {
		value = tftypes.NewValue(kind, nil)
	} else {
		value = encoded(kind, withLists(provider.facts.Arguments[name], values))
	}
	made, err := tfprotov5.NewDynamicValue(kind, value)
	return &made, err
}
