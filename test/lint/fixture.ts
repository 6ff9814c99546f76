/** Stands for the file that the cases of noSymbolCoercion.test.ts are linted as: the project knows it, so they have types. */
export {}
