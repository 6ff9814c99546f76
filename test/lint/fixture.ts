/**
 * The file as which the cases of noSymbolCoercion.test.ts are linted. The fixture file is in the TypeScript project, so
 * the cases have types.
 */
export {}
