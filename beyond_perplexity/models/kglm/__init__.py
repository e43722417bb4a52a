"""KGLM: model, instances, proposals, its knowledge graph."""
