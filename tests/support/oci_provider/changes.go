package main

import (
	"reflect"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// anew are the places of arguments that differ and that OCI does not change in place.
func anew(arguments map[string]argument, prior, planned map[string]any) []*tftypes.AttributePath {
	return anewBelow(tftypes.NewAttributePath(), arguments, prior, planned)
}

func anewBelow(
	place *tftypes.AttributePath, arguments map[string]argument, prior, planned map[string]any,
) []*tftypes.AttributePath {
	var found []*tftypes.AttributePath
	for _, name := range sorted(arguments) {
		given, old, wanted := arguments[name], prior[name], planned[name]
		if same(old, wanted) {
			continue
		}
		here := place.WithAttributeName(name)
		olds, _ := old.([]any)
		wanteds, _ := wanted.([]any)
		if given.Type == "block" && len(olds) == len(wanteds) {
			for at := range olds {
				found = append(found, anewBelow(
					here.WithElementKeyInt(at), given.Block, olds[at].(map[string]any), wanteds[at].(map[string]any),
				)...)
			}
		} else if !given.Updatable {
			found = append(found, here)
		}
	}
	return found
}

// same holds nothing and an empty list for one.
func same(one, other any) bool {
	return reflect.DeepEqual(one, other) || (isEmpty(one) && isEmpty(other))
}

func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == nil || (isList && len(list) == 0)
}
