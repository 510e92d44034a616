/** The currency that pays for gas, on every chain that the exchange knows. */

export const NATIVE_CURRENCY = { name: 'Ether', symbol: 'ETH', decimals: 18 } as const
