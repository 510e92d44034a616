/**
 * Profile of a public exchange, without the values that only its operator knows: chains, keys, origins, the database.
 * The exchange starts only if the environment sets these values (`production-gaps.ts`).
 */

import type { Profile } from './settings-schema.ts'

export const production: Profile = {
  profile: 'production',
  // The origin is a placeholder. The exchange refuses to start until SIBYL_CORS_ORIGINS replaces it.
  front: { host: '0.0.0.0', port: 8080, corsOrigins: ['https://app.example.com'] },
  auth: { bearer: true },
  data: { dir: '/var/lib/sibyl' },
  database: { queryThreads: 2 },
  markets: { partitions: 64, warmUpOrders: 2_000 },
  // The exchange reserves an order's funds before it matches the order, so that every fill settles. An order is worth
  // at least one dollar. A trader who causes a trade to fail cannot place orders for a while. Traders pay no fee for
  // settlement, so the fills of each trader and the gas of these fills are limited per day.
  risk: {
    funds: 'reserve',
    minNotional: 1_000_000,
    cooldownSeconds: 10,
    fillsPerDay: 1_000,
    gasPerDay: 100_000_000,
    failedGasPerDay: 2_000_000,
  },
  // Minimum holding: five dollars. An approval costs the relayer gas, and an attacker can create many wallets for free
  // to waste this gas. Minimum payout of a redemption: five cents. On most chains, this is more than the redemption's
  // gas costs the relayer.
  relayer: { minHolding: 5_000_000, minRedemption: 50_000 },
  feeds: { live: true },
  logging: { level: 'info', format: 'json' },
}
