/** Limits for tests: small numbers that are easy to calculate with. */

import type { Arrival } from '#http/charges.ts'
import type { LimitSettings } from '#http/limits.ts'

export const LIMITS: LimitSettings = {
  ipPerSecond: 100,
  ipBurst: 500,
  siteTimes: 4,
  keyPerSecond: 50,
  keyBurst: 200,
  readCost: 1,
  writeCost: 5,
  unfundedPerSecond: 10,
  unfundedBurst: 100,
  registrationCost: 100,
  connectionCost: 0,
}

export const ARRIVAL: Arrival = {
  requestId: 'a',
  route: '/',
  auth: 'public',
  cost: 'read',
  ip: '192.0.2.1',
  authorization: '',
  deadlineAtMs: 0,
}
