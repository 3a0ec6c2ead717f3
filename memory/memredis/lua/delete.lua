-- Deletes a file or a directory. ARGV: path, name of the operation.
if repeated(ARGV[2]) then
  return 'OK'
end
local files = filesAt(ARGV[1])
if #files == 0 then
  return 'NOTFOUND'
end
for _, path in ipairs(files) do
  remove(path)
end
done(ARGV[2])
return 'OK'
