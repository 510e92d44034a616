/** The bundler substitutes this module for a part of the SDK that the page does not need. */

export function createClientChain(): never {
  throw new Error('this page reads the chain only through the wallet')
}
