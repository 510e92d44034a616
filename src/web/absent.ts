/** Replaces a part of the SDK that the page does not need. The bundler puts this module in its place. */

export function createClientChain(): never {
  throw new Error('this page reads the chain only through the wallet')
}
