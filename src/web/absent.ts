/** Replaces the part of the SDK that a page does not need when the page is bundled. */

export function createClientChain(): never {
  throw new Error('the page speaks to the chain through the wallet only')
}
