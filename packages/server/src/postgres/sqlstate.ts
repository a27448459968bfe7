// SQLSTATE codes the service branches on. A code means something only with its severity: see database.ts.
export const sqlstate = {
  uniqueViolation: '23505',
  duplicateDatabase: '42P04',
  duplicateObject: '42710',
  undefinedTable: '42P01',
  undefinedSchema: '3F000',
  undefinedObject: '42704',
  undefinedDatabase: '3D000',
  dependentObjects: '2BP01',
  insufficientPrivilege: '42501',
  invalidPassword: '28P01',
  diskFull: '53100',
  limitExceeded: '54000',
  lockNotAvailable: '55P03',
  queryCanceled: '57014',
  cannotConnectNow: '57P03',
  internalError: 'XX000',
} as const;
