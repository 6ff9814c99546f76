/**
 * The file as which the cases of noSymbolCoercion.test.ts are linted. It is part of the TypeScript project, so the
 * cases have types.
 */
export {}
